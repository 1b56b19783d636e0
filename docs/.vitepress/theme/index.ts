import type { Theme } from 'vitepress';
import DefaultTheme from 'vitepress/theme-without-fonts';
import HomeFigures from './home/HomeFigures.vue';
import HomeHero from './home/HomeHero.vue';
import Live from './live/Live.vue';
import './live/live.css';
import './style.css';
import SupportFilter from './support/SupportFilter.vue';

export default {
  extends: DefaultTheme,
  enhanceApp({ app }) {
    app.component('HomeHero', HomeHero);
    app.component('HomeFigures', HomeFigures);
    app.component('Live', Live);
    app.component('SupportFilter', SupportFilter);
  },
} satisfies Theme;
